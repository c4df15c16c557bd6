package presetstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

const pageSize = 250

// A VMReader inspects stored VMs page by page. Its memory holds one VM for each worker.
type VMReader struct {
	Client     rest.Interface
	Engine     *presets.Engine
	Namespaces interface {
		Get(ctx context.Context, name string) (presets.Namespace, error)
	}
	Excluded []string // the namespaces in which no preset applies
	// Reapply answers a request that reapplies all presets to a stored VM. It returns the VM as it
	// would be stored, or the problems with which it would be rejected.
	Reapply func(ctx context.Context, vm *unstructured.Unstructured) (after *unstructured.Unstructured, problems []presets.Problem, err error)
}

// An inspectedVM has what a scan finds out about a stored VM.
type inspectedVM struct {
	namespace string
	presets   []presets.Inspection
	drift     fleet.Drift
}

// inspect visits all VMs outside of excluded namespaces.
func (r *VMReader) inspect(ctx context.Context, s *presets.Snapshot, visit func(inspectedVM)) error {
	known := map[string]presets.Namespace{}
	var mu sync.Mutex // for visit
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(max(1, runtime.GOMAXPROCS(0)/2)) // the others serve requests
	inspect := func(raw []byte) error {
		var vm struct {
			Metadata struct{ Namespace, Name string } `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &vm); err != nil || slices.Contains(r.Excluded, vm.Metadata.Namespace) {
			return err
		}
		in, ok := known[vm.Metadata.Namespace]
		if !ok {
			var err error
			in, err = r.Namespaces.Get(ctx, vm.Metadata.Namespace)
			if apierrors.IsNotFound(err) {
				return nil // the namespace is being deleted
			}
			if err != nil {
				return fmt.Errorf("cannot read namespace %s: %w", vm.Metadata.Namespace, err)
			}
			known[vm.Metadata.Namespace] = in
		}
		workers.Go(func() error {
			drift, err := r.drift(ctx, raw)
			if err != nil {
				return err
			}
			out := inspectedVM{namespace: in.Name, drift: drift}
			out.presets, _ = r.Engine.Inspect(ctx, s, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: in}) // an error: no preset can read the VM
			mu.Lock()
			defer mu.Unlock()
			visit(out)
			return nil
		})
		return ctx.Err()
	}
	err := r.pages(ctx, inspect)
	return cmp.Or(workers.Wait(), err) // the error of a worker ends the pages
}

// pages visits all pages of VMs.
func (r *VMReader) pages(ctx context.Context, visit func([]byte) error) error {
	for next := ""; ; {
		var err error
		if next, err = r.page(ctx, next, visit); err != nil || next == "" {
			return err
		}
	}
}

// drift compares a VM with its reapply. A VM that cannot be decoded is rejected.
func (r *VMReader) drift(ctx context.Context, raw []byte) (fleet.Drift, error) {
	var vm unstructured.Unstructured
	if err := vm.UnmarshalJSON(raw); err != nil {
		return fleet.Drift{Problems: unreadable(err)}, nil // other VMs are counted
	}
	after, problems, err := r.Reapply(ctx, &vm)
	if err != nil {
		return fleet.Drift{}, fmt.Errorf("cannot compare VM %s/%s with its reapply: %w", vm.GetNamespace(), vm.GetName(), err)
	}
	if len(problems) > 0 {
		return fleet.Drift{Problems: problems}, nil
	}
	changes, err := fleet.ReappliedChanges(&vm, after, fleet.NoUpdates)
	if err != nil {
		return fleet.Drift{Problems: unreadable(err)}, nil // other VMs are counted
	}
	return fleet.Drift{Changes: changes}, nil
}

func unreadable(err error) []presets.Problem { return []presets.Problem{{Message: err.Error()}} }

// page visits a page of VMs and returns the continue token; empty at the end.
func (r *VMReader) page(ctx context.Context, from string, visit func([]byte) error) (string, error) {
	request := r.Client.Get().AbsPath("/apis/kubevirt.io/v1").Resource("virtualmachines").SetHeader("Accept", "application/json").
		Param("limit", strconv.Itoa(pageSize))
	if from != "" {
		request = request.Param("continue", from)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot list VirtualMachines: %w", err)
	}
	defer func() { _ = body.Close() }()
	next, err := decodePage(body, visit)
	if err != nil {
		return "", fmt.Errorf("cannot read VirtualMachines: %w", err)
	}
	return next, nil
}

// decodePage visits the items of a list while it is read, and returns the continue token.
func decodePage(body io.Reader, visit func([]byte) error) (string, error) {
	var next struct {
		Continue string `json:"continue"`
	}
	d := json.NewDecoder(body)
	if _, err := d.Token(); err != nil {
		return "", err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		switch name {
		case "items":
			err = decodeItems(d, visit)
		case "metadata":
			err = d.Decode(&next)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return "", err
		}
	}
	_, err := d.Token() // an error for an incomplete list
	return next.Continue, err
}

func decodeItems(d *json.Decoder, visit func([]byte) error) error {
	if begin, err := d.Token(); err != nil || begin == nil {
		return err
	}
	for d.More() {
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}
