// Package validation says what may be admitted. It is pure: every function
// takes values and returns problems.
//
// A [Rule] is one named check of a machine; [Rules] lists them all, and
// docs/rules.md is made from that list. [Config.Validate] runs them on a
// [Machine] and ratchets: an update may keep an old problem, not add one.
//
// Ownership is guarded in validation/protection, names in validation/names.
package validation
