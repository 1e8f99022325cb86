"""What every experiment leaves behind, and how a run resumes."""
