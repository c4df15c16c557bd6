// Command argocd compares and syncs one object with the libraries of Argo CD, as its application
// controller does. It reads the object, as Git has it, from standard input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/v3/common"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/argo"
	synccommon "github.com/argoproj/gitops-engine/pkg/sync/common"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/util/openapi"
	"sigs.k8s.io/yaml"
)

// A report says what Argo CD shows of the object.
type report struct {
	// Status is Synced or OutOfSync.
	Status string `json:"status"`
	// Live and Predicted are what Argo CD compares, where they differ.
	Live      json.RawMessage `json:"live,omitempty"`
	Predicted json.RawMessage `json:"predicted,omitempty"`
	// ResourceVersion is that of the stored object.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	application := flag.String("application", "", "a file with the Application")
	syncs := flag.Int("syncs", 0, "how often to sync before the last comparison")
	health := flag.String("health", "", "the ConfigMap argocd-cm: say how healthy the object is, without a cluster")
	flag.Parse()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	var err error
	if *health != "" {
		err = assess(*health)
	} else {
		err = run(*kubeconfig, *application, *syncs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

// run prints a report before the first sync and one after each.
func run(kubeconfig, application string, syncs int) error {
	ctx := context.Background()
	controller, err := newController(kubeconfig, application)
	if err != nil {
		return err
	}
	target, err := controller.target(os.Stdin)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for range syncs {
		if err := controller.compareAndPrint(ctx, out, target); err != nil {
			return err
		}
		if err := controller.sync(ctx, target); err != nil {
			return err
		}
	}
	return controller.compareAndPrint(ctx, out, target)
}

// A controller does for one Application what Argo CD's application controller does.
type controller struct {
	app     *v1alpha1.Application
	config  *rest.Config
	kubectl *kube.KubectlCmd
	schema  openapi.Resources
	parser  *managedfields.GvkParser
}

func newController(kubeconfig, application string) (*controller, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 500
	text, err := os.ReadFile(application)
	if err != nil {
		return nil, err
	}
	app := &v1alpha1.Application{}
	if err := yaml.UnmarshalStrict(text, app); err != nil {
		return nil, fmt.Errorf("cannot read the Application: %w", err)
	}
	onRun := func(string) (kube.CleanupFunc, error) { return func() {}, nil }
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}, OnKubectlRun: onRun}
	schema, parser, err := kubectl.LoadOpenAPISchema(config)
	if err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	return &controller{app, config, kubectl, schema, parser}, nil
}

// target is the object of Git with the tracking annotation of its Application.
func (c *controller) target(in io.Reader) (*unstructured.Unstructured, error) {
	target, err := read(in)
	if err != nil {
		return nil, err
	}
	tracking := argo.NewResourceTracking()
	err = tracking.SetAppInstance(target, common.LabelKeyAppInstance, c.app.Name, target.GetNamespace(), v1alpha1.TrackingMethodAnnotation, "")
	return target, err
}

// read reads an object.
func read(in io.Reader) (*unstructured.Unstructured, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("cannot read the object: %w", err)
	}
	return object, nil
}

// compareAndPrint prints a report of the stored object.
func (c *controller) compareAndPrint(ctx context.Context, out *json.Encoder, target *unstructured.Unstructured) error {
	live, err := c.live(ctx, target)
	if err != nil {
		return err
	}
	compared, err := c.compare(target, live)
	if err != nil {
		return err
	}
	current := report{Status: string(v1alpha1.SyncStatusCodeSynced)}
	if live != nil {
		current.ResourceVersion = live.GetResourceVersion()
	}
	if live == nil || compared.Modified {
		current.Status = string(v1alpha1.SyncStatusCodeOutOfSync)
		current.Live, current.Predicted = compared.NormalizedLive, compared.PredictedLive
	}
	return out.Encode(current)
}

// sync runs a sync operation to its end.
func (c *controller) sync(ctx context.Context, target *unstructured.Unstructured) error {
	operation, end, err := c.operation(ctx, target)
	if err != nil {
		return err
	}
	defer end()
	for range 100 {
		operation.Sync()
		phase, message, results := operation.GetState()
		if phase == synccommon.OperationSucceeded {
			return nil
		}
		if phase.Completed() {
			return fmt.Errorf("sync %s: %s %v", phase, message, results)
		}
	}
	return errors.New("the sync does not end")
}
