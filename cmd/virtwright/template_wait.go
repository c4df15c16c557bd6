package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// makingWait is the wait for a template that was asked for.
type makingWait struct {
	objectWait
	requests dynamic.ResourceInterface
	// source is NAMESPACE/NAME of the machine.
	source    string
	namespace string
	timeout   time.Duration
	progress  io.Writer
	made      *sspv1alpha1.VirtualMachineTemplateRequest
}

// await returns the request when the template is ready. It tells what delays it.
func (w *makingWait) await(ctx context.Context) (*sspv1alpha1.VirtualMachineTemplateRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.objects, w.reached, w.shown = w.requests, w.look, "request "+w.namespace+"/"+w.name
	w.tell = func(state string) { fmt.Fprintf(w.progress, "Request %s: %s\n", w.name, state) }
	err := w.until(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = unfinished{w.late()}
	}
	return w.made, err
}

// late says how far it came.
func (w *makingWait) late() error {
	last := w.last
	if last == "" {
		last = "not seen by anybody (does virtwright's manager run?)"
	}
	return fmt.Errorf("there is no template of VM %s after %s: request %s/%s is %s; it stays: kubectl get vmtr %s -n %s",
		w.source, w.timeout, w.namespace, w.name, last, w.name, w.namespace)
}

// look judges a state of the request, and tells what delays it.
func (w *makingWait) look(_ context.Context, object *unstructured.Unstructured) (bool, error) {
	r, err := decoded[sspv1alpha1.VirtualMachineTemplateRequest](object)
	if err != nil {
		return false, err
	}
	conditions := r.Status.Conditions
	ready := meta.FindStatusCondition(conditions, sspv1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue:
		w.made = r
	case meta.IsStatusConditionFalse(conditions, sspv1alpha1.ConditionProgressing):
		return false, declined{fmt.Errorf("cannot make a template of VM %s: %s: %s (request %s/%s)", w.source, ready.Reason, ready.Message, w.namespace, w.name)}
	case ready.Reason == sspv1alpha1.ReasonReconciling: // nothing delays it
		w.last = notReady(ready, "")
	default:
		hint := ""
		if ready.Reason == sspv1alpha1.ReasonFormatUnavailable {
			hint = "; --format " + sspv1alpha1.FormatConfigMap + " needs no API of its own"
		}
		w.news(notReady(ready, hint))
	}
	return w.made != nil, nil
}

func notReady(ready *metav1.Condition, hint string) string {
	return fmt.Sprintf("not ready (%s: %s%s)", ready.Reason, ready.Message, hint)
}
