// Package gitops syncs VMs with the libraries of Argo CD and Flux, each in a Go module of its own,
// against a control plane with virtwright. What the pages about these tools say, it tests.
package gitops
