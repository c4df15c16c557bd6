package main

import (
	"context"

	"github.com/argoproj/argo-cd/v3/common"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	argodiff "github.com/argoproj/argo-cd/v3/util/argo/diff"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	kubeutil "github.com/argoproj/argo-cd/v3/util/kube"
	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/sync"
	resourceutil "github.com/argoproj/gitops-engine/pkg/sync/resource"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// live is the stored object, or nil.
func (c *controller) live(ctx context.Context, target *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := c.kubectl.GetResource(ctx, c.config, target.GroupVersionKind(), target.GetName(), target.GetNamespace())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// compare follows CompareAppState in controller/state.go.
func (c *controller) compare(target, live *unstructured.Unstructured) (diff.DiffResult, error) {
	config, end, err := c.diffConfig()
	if err != nil {
		return diff.DiffResult{}, err
	}
	defer end()
	return argodiff.StateDiff(live, target, config)
}

func (c *controller) diffConfig() (argodiff.DiffConfig, func(), error) {
	applier, end, err := kubeutil.ManageServerSideDiffDryRuns(c.config, c.schema, c.kubectl.OnKubectlRun)
	if err != nil {
		return nil, nil, err
	}
	builder := argodiff.NewDiffConfigBuilder().
		WithDiffSettings(c.app.Spec.IgnoreDifferences, nil, false, normalizers.IgnoreNormalizerOpts{}).
		WithTracking(common.LabelKeyAppInstance, string(v1alpha1.TrackingMethodAnnotation)).
		WithNoCache().
		WithGVKParser(c.parser).
		WithManager(common.ArgoCDSSAManager).
		WithServerSideDiff(c.compares("ServerSideDiff=true")).
		WithIgnoreMutationWebhook(!c.compares("IncludeMutationWebhook=true")).
		WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)).
		WithStructuredMergeDiff(c.syncs("ServerSideApply=true"))
	config, err := builder.Build()
	return config, end, err
}

func (c *controller) compares(option string) bool {
	return resourceutil.HasAnnotationOption(c.app, common.AnnotationCompareOptions, option)
}

func (c *controller) syncs(option string) bool {
	return c.app.Spec.SyncPolicy != nil && c.app.Spec.SyncPolicy.SyncOptions.HasOption(option)
}

// operation follows SyncAppState in controller/sync.go.
func (c *controller) operation(ctx context.Context, target *unstructured.Unstructured) (sync.SyncContext, func(), error) {
	live, err := c.live(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	if live != nil && c.syncs("RespectIgnoreDifferences=true") {
		if target, err = c.respecting(target, live); err != nil {
			return nil, nil, err
		}
	}
	result := sync.ReconciliationResult{Live: []*unstructured.Unstructured{live}, Target: []*unstructured.Unstructured{target.DeepCopy()}}
	return sync.NewSyncContext("HEAD", result, c.config, c.config, c.kubectl, target.GetNamespace(), c.schema,
		sync.WithLogr(logr.Discard()),
		sync.WithOperationSettings(false, true, false, false),
		sync.WithManifestValidation(true),
		sync.WithServerSideApply(c.syncs("ServerSideApply=true")),
		sync.WithServerSideApplyManager(common.ArgoCDSSAManager),
		sync.WithClientSideApplyMigration(true, "kubectl-client-side-apply"),
	)
}

// respecting follows normalizeTargetResources in controller/sync.go, which is not exported: fields
// that are ignored keep their stored values.
func (c *controller) respecting(target, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	config, end, err := c.diffConfig()
	if err != nil {
		return nil, err
	}
	defer end()
	normalized, err := argodiff.Normalize([]*unstructured.Unstructured{live}, []*unstructured.Unstructured{target}, config)
	if err != nil {
		return nil, err
	}
	texts := map[*unstructured.Unstructured][]byte{live: nil, normalized.Lives[0]: nil, normalized.Targets[0]: nil}
	for object := range texts {
		if texts[object], err = object.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	patch, err := jsonpatch.CreateMergePatch(texts[normalized.Lives[0]], texts[live])
	if err != nil {
		return nil, err
	}
	text, err := jsonpatch.MergePatch(texts[normalized.Targets[0]], patch)
	if err != nil {
		return nil, err
	}
	patched := &unstructured.Unstructured{}
	return patched, patched.UnmarshalJSON(text)
}
