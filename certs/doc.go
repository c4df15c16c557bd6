// Package certs makes the manager's own serving certificate, keeps it fresh
// and tells API servers to trust it.
//
// An [Authority] has a certificate authority and a serving certificate in a
// [Store] that all replicas share, renews both before they expire and hands the
// newest to TLS without a restart. An [Injector] writes the authority's bundle
// into webhook configurations and APIServices.
//
// Rotation never breaks a connection, because every change waits for those who
// must know it: a new certificate authority is in the bundle for
// Lifetimes.Overlap before it signs anything, and an old one stays in the bundle
// until it expires, which is after all that it signed.
package certs
