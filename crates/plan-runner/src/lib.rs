//! Runs a plan of a model's making: the scaffold owns the control flow, models only answer.
