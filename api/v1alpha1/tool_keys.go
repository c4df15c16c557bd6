package v1alpha1

import (
	"slices"
	"strings"
)

// WholeObjects are annotations in which tools keep the whole VM with its secrets.
var WholeObjects = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"kapp.k14s.io/original",
	"kapp.k14s.io/original-diff",
	"kapp.k14s.io/original-diff-full",
	"kapp.k14s.io/original-diff-md5",
	"objectset.rio.cattle.io/applied",
}

// LabelInstance names an instance of an application. Argo CD before 3.0 knows its objects by it.
const LabelInstance = "app.kubernetes.io/instance"

var toolAnnotations = []string{
	"kubevirt.io/latest-observed-api-version",
	"kubevirt.io/storage-observed-api-version",
	"argocd.argoproj.io/tracking-id", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
	"kubemacpool.io/transaction-timestamp", "kapp.k14s.io/identity",
}

var toolLabels = []string{
	"kubevirt.io/vm-pool-revision-name", "argocd.argoproj.io/instance", LabelInstance, "applyset.kubernetes.io/part-of",
	"kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace",
	"helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace",
	"kapp.k14s.io/app", "kapp.k14s.io/association", "objectset.rio.cattle.io/hash",
	"velero.io/backup-name", "velero.io/restore-name",
}

// IsToolLabel reports whether a tool knows its own objects by a label. Another VM must not have it:
// Argo CD, kapp, Rancher and kubectl (--applyset) delete objects with their label that have no
// manifest.
func IsToolLabel(key string) bool { return slices.Contains(toolLabels, key) }

// IsToolAnnotation reports whether an annotation is what a tool keeps about one VM.
func IsToolAnnotation(key string) bool {
	return slices.Contains(WholeObjects, key) || slices.Contains(toolAnnotations, key) ||
		strings.HasPrefix(key, "restore.kubevirt.io/") || strings.HasPrefix(key, "objectset.rio.cattle.io/")
}
