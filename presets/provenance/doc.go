// Package provenance says where each field of a virtual machine came from.
//
// A Path names one field or list element, a Source names what decided it, and
// a Record maps paths to sources. A record is a trie, so that a field is
// found, and a whole record written, in one walk; its compact JSON form is
// what virtwright stores in the annotation virtwright.dev/provenance.
//
// The package knows nothing of presets or of KubeVirt's types.
package provenance
