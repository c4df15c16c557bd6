package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// round is for how long a watch is believed; then everything is read again.
const round = 10 * time.Second

// pause is how long to wait for a server that cannot be asked.
const pause = time.Second

// unfinished is that a request was accepted and the machine is not where it
// shall be.
type unfinished struct{ error }

// Unwrap is why.
func (u unfinished) Unwrap() error { return u.error }

// outgoing is the instance that is not what the request leads to: the one that
// is stopped or restarted, or the remains of an earlier one.
func (p *power) outgoing(ctx context.Context, c *clusterClient) (types.UID, error) {
	vmi, err := c.instance(ctx, p.name)
	switch {
	case err != nil:
		return "", p.refused(c, fmt.Errorf("cannot wait: %w", err))
	case vmi == nil || p.verb == verbStart && !vmi.IsFinal():
		return "", nil
	}
	return vmi.UID, nil
}

// await returns when the machine is where it shall be, and tells the way there.
func (p *power) await(ctx context.Context, c *clusterClient, before types.UID, progress io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	w := &waiting{power: p, cluster: c, before: before, progress: progress}
	for {
		done, err := w.round(ctx)
		var never unfinished
		switch {
		case done:
			return nil
		case errors.As(err, &never):
			return err
		case ctx.Err() != nil:
			return unfinished{fmt.Errorf("VM %s/%s is %s after %s; the request was accepted", c.namespace, p.name, w.last, p.timeout)}
		case judged(err) && !apierrors.IsNotFound(err): // a server that starts may not know all kinds yet
			return unfinished{fmt.Errorf("cannot wait for VM %s/%s: %w", c.namespace, p.name, err)}
		case err != nil:
			w.tell(fmt.Sprintf("unknown (%s)", err))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// waiting is one call's wait.
type waiting struct {
	*power
	cluster  *clusterClient
	before   types.UID
	progress io.Writer
	last     string // that was told
}

// round reads everything, and again with every change of the VM.
func (w *waiting) round(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", w.name).String()}
	list, err := w.cluster.vms.List(ctx, options)
	if err != nil {
		return false, err
	}
	if len(list.Items) == 0 {
		return false, w.deleted()
	}
	if done, err := w.look(ctx, &list.Items[0]); done || err != nil {
		return done, err
	}
	options.ResourceVersion = list.GetResourceVersion()
	watching, err := w.cluster.vms.Watch(ctx, options)
	if err != nil {
		return false, err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		vm, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case !ok || event.Type == watch.Error:
			return false, nil // too old: the next round reads anew
		case event.Type == watch.Deleted:
			return false, w.deleted()
		}
		if done, err := w.look(ctx, vm); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (w *waiting) deleted() error {
	return unfinished{fmt.Errorf("cannot wait for VM %s/%s: it was deleted", w.cluster.namespace, w.name)}
}

// look judges a state of the VM, together with the instance as it is now, and
// tells it where that is news.
func (w *waiting) look(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	vm, err := decoded[kubevirtv1.VirtualMachine](object)
	if err != nil {
		return false, err
	}
	vmi, err := w.cluster.instance(ctx, w.name)
	if err != nil {
		return false, err
	}
	s := sight{vm: vm, vmi: vmi, before: w.before}
	done := w.there(s)
	w.tell(s.describe(done))
	if done {
		return true, nil
	}
	if never := w.hopeless(s); never != "" {
		return false, unfinished{fmt.Errorf("cannot %s VM %s/%s: %s", w.verb, w.cluster.namespace, w.name, never)}
	}
	return false, nil
}

// tell says what is new.
func (w *waiting) tell(state string) {
	if state == w.last {
		return
	}
	w.last = state
	fmt.Fprintf(w.progress, "VM %s: %s\n", w.name, state)
}
