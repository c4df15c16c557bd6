// Package validation validates expanded VMs and VMIs. It is pure: every function takes values and
// returns problems.
//
// A [Rule] is one named check; groups lists all of them, and docs/rules.md and docs/rules are
// generated from that list. [Config.Validate] runs them on an [ExpandedVM]. An update may keep an
// old problem, but not add one.
//
// Package validation/protection protects reserved fields, validation/names prevents name conflicts.
package validation
