"""The store as its application sees it: found, its rows decoded, compared and added up."""
