"""Who is abnormal: baselines, rules and findings over counts; columns in, findings out."""
