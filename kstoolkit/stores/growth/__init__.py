"""Why a store does not shrink: who takes its room, what is past its time, what was deleted."""
