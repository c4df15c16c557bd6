// Package fake exists because KubeVirt's unit tests import it: `go mod tidy` looks for it.
package fake
