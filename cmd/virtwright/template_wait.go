package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// makingWait is the wait for a template that was asked for.
type makingWait struct {
	requests dynamic.ResourceInterface
	// source is NAMESPACE/NAME of the machine.
	source string
	// name and namespace are the request's.
	name, namespace string
	timeout         time.Duration
	progress        io.Writer
	// version is where the next round begins to watch; empty where it has to read first.
	version string
	last    string // that was seen; what is in the way was told
	made    *sspv1alpha1.VirtualMachineTemplateRequest
}

// await returns the request when its template is there, and tells the way there.
func (w *makingWait) await(ctx context.Context) (*sspv1alpha1.VirtualMachineTemplateRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for {
		err := w.round(ctx)
		var never unfinished
		var no declined
		switch {
		case w.made != nil:
			return w.made, nil
		case errors.As(err, &never), errors.As(err, &no):
			return nil, err
		case ctx.Err() != nil:
			return nil, unfinished{w.late()}
		case judged(err) && !apierrors.IsNotFound(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return nil, unfinished{fmt.Errorf("cannot wait for request %s/%s: %w", w.namespace, w.name, err)}
		case err != nil:
			w.tell(fmt.Sprintf("unknown (%s)", err))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
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

// round watches the request for a while, after reading it where that is due.
func (w *makingWait) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", w.name).String()}
	if w.version == "" {
		list, err := w.requests.List(ctx, options)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return w.deleted()
		}
		if err := w.look(&list.Items[0]); err != nil || w.made != nil {
			return err
		}
		w.version = list.GetResourceVersion()
	}
	options.ResourceVersion, w.version = w.version, ""
	watching, err := w.requests.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return nil // too old: the next round reads anew
		}
		err := w.look(object)
		switch {
		case err != nil || w.made != nil: // also of one that is deleted at once
			return err
		case event.Type == watch.Deleted:
			return w.deleted()
		}
	}
	return nil
}

func (w *makingWait) deleted() error {
	return unfinished{fmt.Errorf("cannot wait for request %s/%s: it was deleted", w.namespace, w.name)}
}

// look judges a state of the request, and tells what is in the way where that is
// news.
func (w *makingWait) look(object *unstructured.Unstructured) error {
	r, err := decoded[sspv1alpha1.VirtualMachineTemplateRequest](object)
	if err != nil {
		return err
	}
	conditions := r.Status.Conditions
	ready := meta.FindStatusCondition(conditions, sspv1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue:
		w.made = r
	case meta.IsStatusConditionFalse(conditions, sspv1alpha1.ConditionProgressing):
		return declined{fmt.Errorf("cannot make a template of VM %s: %s: %s (request %s/%s)", w.source, ready.Reason, ready.Message, w.namespace, w.name)}
	case ready.Reason == sspv1alpha1.ReasonReconciling: // nothing is in the way
		w.last = notReady(ready, "")
	default:
		hint := ""
		if ready.Reason == sspv1alpha1.ReasonFormatUnavailable {
			hint = "; --format " + sspv1alpha1.FormatConfigMap + " needs no API of its own"
		}
		w.tell(notReady(ready, hint))
	}
	return nil
}

func notReady(ready *metav1.Condition, hint string) string {
	return fmt.Sprintf("not ready (%s: %s%s)", ready.Reason, ready.Message, hint)
}

// tell says what is new.
func (w *makingWait) tell(state string) {
	if state == w.last {
		return
	}
	w.last = state
	fmt.Fprintf(w.progress, "Request %s: %s\n", w.name, state)
}
