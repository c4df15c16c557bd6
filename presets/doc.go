// Package presets expands VMs and VMIs: it merges presets and platform defaults into an object, and
// records where each field came from. It is pure: facts are values of the request.
//
// The strongest layer that sets a field decides it: cluster overrides and removals, namespaced
// ones, the user, defaults, the platform. Within a layer, higher priority wins, then (for defaults)
// namespaced over cluster, then the name. The order of presets does not matter, a second expansion
// changes nothing, and a default never changes a field of the user. Each law is a property test.
package presets
