// Package load sends hostile requests to a manager that runs with the memory
// that the chart grants, and looks at what that costs.
package load
