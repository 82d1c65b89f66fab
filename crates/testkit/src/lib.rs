//! What tests share: the conformance suite, a reference model, a simulator and faults.
