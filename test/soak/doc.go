// Package soak has people work with machines without a pause while everything happens to an
// installation that happens to one: its pods are deleted, also all at once, restarted, upgraded and
// killed, its certificates change, its leader is deposed, its API server restarts. No request may
// fail, no machine stay as its author left it, and none be expanded twice.
//
// TestControlPlane runs on a control plane of this machine; TestKind, with at least 20,000
// requests, on the cluster of kind that KIND_CLUSTER names.
package soak
