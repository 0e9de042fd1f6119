"""Panels for JupyterLab: controls, what they show, and a static picture where no widget lives."""
