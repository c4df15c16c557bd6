// Package fleet says what presets do to many VMs at once: which of them contradict, hide or
// never reach each other, and what a change of presets would change.
//
// It decides nothing about a single VM: for each claim it asks the engine of package presets,
// with a witness VM that shows the claim. The package is pure.
package fleet
