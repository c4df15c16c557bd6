// Package load sends hostile requests to a manager that runs with the memory that the chart grants,
// restarts one among many presets and VMs, and looks at what that costs.
package load
