"""Routes of the whole service: rollouts, events, conductors, drivers, the audit."""
