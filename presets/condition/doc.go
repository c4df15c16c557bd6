// Package condition compiles and evaluates the CEL expressions of presets: conditions, variables
// and computed values. It also finds what an expression reads, and for which VMs it fails.
package condition
