// Package chart tests the Helm chart: what it renders over its values, what it rejects, and that a
// real API server takes it, lets the manager do its work with the rights the chart gives, and is
// left in peace when the chart goes.
package chart
