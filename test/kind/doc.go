// Package kind tells the stories that only a real cluster can tell: virtwright installed by its
// chart, its certificates issued by cert-manager, called by API servers through Services, upgraded
// and removed.
//
// The stories run, in one order, where KIND_CLUSTER names a cluster of kind (make e2e-kind makes
// one); without it they are skipped.
package kind
