package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"
)

const (
	// round is how long a watch lasts before everything is read again.
	round = 10 * time.Second
	// retryDelay is the pause after a request that failed.
	retryDelay = time.Second
)

// unfinished is the error of a wait for something that was accepted.
type unfinished struct{ error }

// Unwrap returns the reason.
func (u unfinished) Unwrap() error { return u.error }

// objectWait waits for a state of an object, as kubectl wait does, and outlives restarts of the API server.
type objectWait struct {
	objects dynamic.ResourceInterface
	name    string
	// shown is the object in messages.
	shown string
	// version is where the first watch begins; empty to read the object first.
	version string
	// reached reports whether the object has the state. An error that is unfinished or declined ends the wait.
	reached func(context.Context, *unstructured.Unstructured) (bool, error)
	// tell is called with the text of each new state.
	tell func(state string)
	last string
}

// until returns nil once the object has the state. The error is that of the context if it ends.
func (w *objectWait) until(ctx context.Context) error {
	for {
		err := w.round(ctx)
		var never unfinished
		var no declined
		switch {
		case err == nil, errors.As(err, &never), errors.As(err, &no):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, watchtools.ErrWatchClosed), wait.Interrupted(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		case judged(err) && !apierrors.IsNotFound(err): // a server that starts may not know all kinds yet
			return unfinished{fmt.Errorf("cannot wait for %s: %w", w.shown, err)}
		default:
			w.news(fmt.Sprintf("unknown (%s)", err))
			select {
			case <-time.After(retryDelay):
			case <-ctx.Done():
			}
		}
	}
}

// round reads the object unless that was done, and watches it for a while.
func (w *objectWait) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()}
	if w.version == "" {
		list, err := w.objects.List(ctx, options)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return w.deleted()
		}
		if done, err := w.reached(ctx, &list.Items[0]); done || err != nil {
			return err
		}
		w.version = list.GetResourceVersion()
	}
	options.ResourceVersion, w.version = w.version, ""
	watching, err := w.objects.Watch(ctx, options)
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, watching, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		done, err := w.reached(ctx, object) // also of an object that is deleted at once
		if !done && err == nil && event.Type == watch.Deleted {
			err = w.deleted()
		}
		return done, err
	})
	return err
}

func (w *objectWait) deleted() error {
	return unfinished{fmt.Errorf("cannot wait for %s: it was deleted", w.shown)}
}

// news tells a state unless it was told last.
func (w *objectWait) news(state string) {
	if state != w.last {
		w.last = state
		w.tell(state)
	}
}
