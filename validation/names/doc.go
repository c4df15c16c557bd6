// Package names prevents conflicts of names and identifiers: a VM and its VMI share namespace and
// name, and no two VMs may share a data volume. It is pure: related objects are parameters.
//
// A cache does not contain two objects that are created at the same time. So the rules run twice:
// [Check] at admission, against an index, and [Conflicts] later in a controller, which reports
// conflicts caused by a race.
package names
