"""The store as its application sees it: what lies in it by user and window, restored, followed."""
