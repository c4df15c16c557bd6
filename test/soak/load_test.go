package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// workers are people who work at the same time.
	workers = 6
	// home is the namespace of their machines.
	home = "soak"
	// patience is how long they try one request again.
	patience = 5 * time.Minute
)

// sparse is what people write.
const sparse = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
	"metadata": {"name": %q, "namespace": "soak", "labels": {"size": "small"}},
	"spec": {"runStrategy": "Manual", "template": {"spec": {"domain": {"devices": {}}}}}}`

// A load is people who create, change, read, start and stop machines.
type load struct {
	ledger

	api     rest.Interface
	serial  atomic.Int64
	runs    sync.Map // by the name of a VM, what its user asked for last, a demand
	stop    context.CancelFunc
	working sync.WaitGroup
}

// newLoad sets people to work, before anything happens, until finish.
func newLoad(t *testing.T, config *rest.Config) *load {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{api: clients.CoreV1().RESTClient()}
	l.enter(quiet)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	t.Cleanup(l.finish)
	for range workers {
		l.working.Go(func() {
			for ctx.Err() == nil {
				l.work(ctx, l.serial.Add(1))
			}
		})
	}
	return l
}

// finish sends people home, once what they do is done.
func (l *load) finish() {
	l.stop()
	l.working.Wait()
}

const machines = "/apis/kubevirt.io/v1/namespaces/soak/virtualmachines/"

// work is the life of a VM. It is not interrupted: an interrupted request shows nothing about its
// server.
func (l *load) work(ctx context.Context, serial int64) {
	ctx = context.WithoutCancel(ctx)
	name := fmt.Sprintf("vm-%d", serial)
	l.do(ctx, "create", l.api.Post().AbsPath(strings.TrimSuffix(machines, "/")).Body(fmt.Appendf(nil, sparse, name)))
	l.do(ctx, "patch", l.api.Patch(types.MergePatchType).AbsPath(machines+name).Body([]byte(`{"metadata": {"annotations": {"soak/turn": "1"}}}`)))
	l.update(ctx, name)
	l.do(ctx, "patch", l.api.Patch(types.JSONPatchType).AbsPath(machines+name).Body([]byte(`[{"op": "add", "path": "/metadata/labels/soak", "value": "done"}]`)))
	if serial%4 == 0 {
		verbs := "/apis/subresources.kubevirt.io/v1/namespaces/soak/virtualmachines/" + name
		l.do(ctx, "start", l.api.Put().AbsPath(verbs+"/start").Body([]byte("{}")))
		l.runs.Store(name, started)
		l.do(ctx, "read as v1alpha2", l.api.Get().AbsPath("/apis/kubevirt.io/v1alpha2/namespaces/soak/virtualmachines/"+name))
		if serial%8 == 0 {
			_, again, err := l.ask(ctx, "stop", l.api.Put().AbsPath(verbs+"/stop").Body([]byte("{}")))
			switch {
			case err == nil:
				l.runs.Store(name, stopped)
			case again:
				l.runs.Store(name, either)
			}
		}
	}
}

// A demand is what a user asked for last.
type demand string

const (
	stopped demand = "Stopped"
	started demand = "Starting" // also if there was nothing to stop yet
	// either follows a request without an answer, and a conflict when it was sent again: the
	// machine was stopped the first time, or there was nothing to stop yet.
	either demand = "Stopped or Starting"
)

// update reads a VM and writes it, and retries after a conflict.
func (l *load) update(ctx context.Context, name string) {
	for {
		content, _, _ := l.ask(ctx, "read", l.api.Get().AbsPath(machines+name))
		vm := &unstructured.Unstructured{}
		if err := json.Unmarshal(content, &vm.Object); err != nil {
			return // which is in the ledger
		}
		_ = unstructured.SetNestedField(vm.Object, "2", "spec", "template", "metadata", "annotations", "soak/turn")
		content, _ = json.Marshal(vm)
		if _, _, err := l.ask(ctx, "update", l.api.Put().AbsPath(machines+name).Body(content)); !apierrors.IsConflict(err) {
			return
		}
	}
}

// do sends a request until a server that knows the VM answers.
func (l *load) do(ctx context.Context, verb string, request *rest.Request) {
	_, _, _ = l.ask(ctx, verb, request) // which is in the ledger
}

// ask does the same, and returns the last answer, and whether it had to ask again.
func (l *load) ask(ctx context.Context, verb string, request *rest.Request) (content []byte, again bool, err error) {
	request = request.MaxRetries(0).SetHeader("Accept", "application/json")
	if verb != "patch" {
		request = request.SetHeader("Content-Type", "application/json")
	}
	for began := time.Now(); ; again = true {
		sent := time.Now()
		content, err = request.Do(ctx).Raw()
		err = explained(err, content)
		a := answer{verb: verb, took: time.Since(sent), err: err, unsent: isUnsent(err)}
		if answered(verb, err, again) {
			a.err = nil
		}
		if verb != "read" || a.err != nil {
			l.record(a)
		}
		if a.err == nil || time.Since(began) > patience {
			return content, again, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// explained is a failure with what the answer says of it: the status that an API server writes, or
// the text of a proxy.
func explained(err error, content []byte) error {
	var status metav1.Status
	switch {
	case err == nil:
		return nil
	case len(content) == 0:
		return fmt.Errorf("%w: %s", err, serverText(err))
	case json.Unmarshal(content, &status) == nil && status.Kind == "Status":
		return apierrors.FromObject(&status)
	}
	return fmt.Errorf("%w: %s", err, bytes.TrimSpace(content))
}

// serverText is what a server that is no API server said, if it is known.
func serverText(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return ""
	}
	var out []string
	for _, cause := range status.ErrStatus.Details.Causes {
		out = append(out, cause.Message)
	}
	return strings.Join(out, "; ")
}

// answered reports whether a server that knows the VM has answered.
func answered(verb string, err error, again bool) bool {
	switch verb {
	case "create": // which was heard, though its answer was not
		return err == nil || again && apierrors.IsAlreadyExists(err)
	case "start": // the same
		return err == nil || again && apierrors.IsConflict(err)
	case "update", "stop": // a conflict, or there is no VMI yet
		return err == nil || apierrors.IsConflict(err)
	}
	return err == nil
}

// isUnsent reports whether a failure is that of an API server that is not there: it does not
// answer, or says that it goes.
func isUnsent(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return strings.Contains(err.Error(), "apiserver is shutting down") || apierrors.IsTooManyRequests(err)
	}
	return err != nil && (utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || utilnet.IsHTTP2ConnectionLost(err) || strings.Contains(err.Error(), "http2: "))
}

// retriable reports whether a failure says nothing of the request itself, so that who sends it
// again may succeed: a webhook, a conversion or an aggregated API could not be reached.
func retriable(err error) bool {
	if apierrors.IsServiceUnavailable(err) {
		return true
	}
	text := err.Error()
	return apierrors.IsInternalError(err) && (strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook"))
}
