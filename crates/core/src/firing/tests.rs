//! Tables of slot to decision, for every policy.
