// Package presets is stage 1 of virtwright: it makes a sparse virtual machine
// whole and says where each field came from.
//
// Presets are compiled once (Compile) into a Snapshot, which is immutable and
// indexed, so that a request costs what matches and not what exists.
// Snapshot.Resolve then answers one admission request. The package is pure: facts,
// among them the namespace, the writer and the owner, come in as values, and what
// goes out is a patch, warnings and a provenance record.
//
// # Algebra
//
// A virtual machine is a set of leaves, each at a path. Layers, strongest
// first, decide a leaf: cluster overrides and removes, namespaced overrides and
// removes, the user, defaults of all presets, platform defaults. Inside a layer
// presets act by precedence: higher priority, then (defaults only) namespaced
// over cluster, then name. The result depends on the set of presets alone,
// never on their order; a second pass changes nothing; a default never changes
// a leaf that the user wrote. Each of these is a property test.
//
// Lists with a natural key (schema_lists.go) merge by it and other lists are
// leaves. One-of groups (schema_oneofs.go) are one choice. Elements that are
// linked by name (links.go) are added together or not at all.
package presets
