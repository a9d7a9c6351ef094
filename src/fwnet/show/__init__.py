"""Progress bars, tables and plots."""
