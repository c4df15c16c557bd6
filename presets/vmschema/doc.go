// Package vmschema describes the fields of a VirtualMachine, as KubeVirt's Go types have them:
// their shapes, the keys of list elements, and fields that exclude or need each other.
package vmschema
