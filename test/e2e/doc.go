// Package e2e tells the user stories of virtwright on a real API server, one file each, and asserts
// the state of the world: with kubectl, as people use it, and with client-go, as automation does.
//
// Each process of the suite starts its own control plane (test/controlplane) and manager, so that
// stories in other processes do not notice what a story changes. With KUBECONFIG_E2E set to the
// path of a kubeconfig it uses that cluster and the manager that is installed there, and skips the
// stories that must start, stop or configure the manager.
package e2e
