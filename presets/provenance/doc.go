// Package provenance records where each field of a VM came from.
//
// A Path leads to a field or list element, a Source is a preset or platform rule that decides
// fields, and a Record maps paths to sources. A record is a trie: finding one field and writing the
// whole record take one walk each. virtwright stores its compact JSON form in the annotation
// virtwright.dev/provenance.
//
// The package does not depend on presets or on KubeVirt's types.
package provenance
