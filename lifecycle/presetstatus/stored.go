package presetstatus

import (
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
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/presets"
)

const pageSize = 250

// A VMReader inspects stored VMs page by page. Its memory holds one VM for each processor.
type VMReader struct {
	Client     rest.Interface
	Engine     *presets.Engine
	Namespaces interface {
		Get(ctx context.Context, name string) (presets.Namespace, error)
	}
	Excluded []string // the namespaces in which no preset applies
}

// inspect visits all VMs. It does not read instancetypes: there may be two for each VM.
func (r *VMReader) inspect(ctx context.Context, s *presets.Snapshot, visit func(found []presets.Inspection)) error {
	known := map[string]presets.Namespace{}
	var mu sync.Mutex // for visit
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	defer func() { _ = workers.Wait() }() // they return no error
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
			found, err := r.Engine.Inspect(ctx, s, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: in})
			if err == nil { // otherwise no preset can read the VM
				mu.Lock()
				defer mu.Unlock()
				visit(found)
			}
			return nil
		})
		return ctx.Err()
	}
	for next := ""; ; {
		var err error
		if next, err = r.page(ctx, next, inspect); err != nil || next == "" {
			return err
		}
	}
}

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
