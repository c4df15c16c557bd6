package presetscan

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/presets"
)

// pageSize is how many VMs API servers are asked for at a time.
const pageSize = 250

// Namespaces finds namespaces.
type Namespaces interface {
	// Get returns a namespace by name.
	Get(ctx context.Context, name string) (presets.Namespace, error)
}

// A Reader reads stored VMs page by page, and holds one of them for each processor at a time.
type Reader struct {
	Client     rest.Interface
	Engine     *presets.Engine
	Namespaces Namespaces
	// Excluded are namespaces in which no preset acts.
	Excluded []string
}

// A visitor takes what presets have to do with a VM.
type visitor func(vm types.NamespacedName, found []presets.Inspection)

// inspect visits at most so many VMs of a namespace, or of all if it is empty. It reports whether
// these were all. Instancetypes are not read: there may be two for each VM.
func (r *Reader) inspect(ctx context.Context, s *presets.Snapshot, namespace string, most int, visit visitor) (all bool, err error) {
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
			if in, err = r.Namespaces.Get(ctx, vm.Metadata.Namespace); err != nil {
				return fmt.Errorf("cannot read namespace %s: %w", vm.Metadata.Namespace, err)
			}
			known[vm.Metadata.Namespace] = in
		}
		workers.Go(func() error {
			found, err := r.Engine.Inspect(ctx, s, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: in})
			if err == nil { // else the VM is in a form that no preset reads
				mu.Lock()
				defer mu.Unlock()
				visit(types.NamespacedName(vm.Metadata), found)
			}
			return nil
		})
		return ctx.Err()
	}
	for left, next := most, ""; ; {
		size := min(left, pageSize)
		if next, err = r.page(ctx, namespace, size, next, inspect); err != nil || next == "" {
			return err == nil, err
		}
		if left -= size; left == 0 {
			return false, nil
		}
	}
}

// page visits a page of VMs and returns where the next one begins; empty at the end.
func (r *Reader) page(ctx context.Context, namespace string, size int, from string, visit func([]byte) error) (string, error) {
	request := r.Client.Get().AbsPath("/apis/kubevirt.io/v1").Resource("virtualmachines").SetHeader("Accept", "application/json").
		Param("limit", strconv.Itoa(size))
	if namespace != "" {
		request = request.Namespace(namespace)
	}
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

// decodePage visits the items of a list as they arrive, and returns its continue token.
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
		var ignored json.RawMessage
		switch name {
		case "items":
			err = decodeItems(d, visit)
		case "metadata":
			err = d.Decode(&next)
		default:
			err = d.Decode(&ignored)
		}
		if err != nil {
			return "", err
		}
	}
	_, err := d.Token() // without it, the list was cut short
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

// maxLooked is how many VMs are looked at for an admission request.
const maxLooked = 500

// Breaking counts the stored VMs that have what the preset forbids, and names one of them. It
// looks at a few hundred VMs at most, and ends when the context does; all says that it has looked
// at every VM.
func (r *Reader) Breaking(ctx context.Context, preset *presets.Compiled) (n int, example string, all bool, err error) {
	alone := presets.NewSnapshot([]*presets.Compiled{preset}, nil)
	all, err = r.inspect(ctx, alone, preset.Namespace, maxLooked, func(vm types.NamespacedName, found []presets.Inspection) {
		if slices.ContainsFunc(found, func(i presets.Inspection) bool { return i.Breaks }) {
			if n++; n == 1 || vm.String() < example {
				example = vm.String()
			}
		}
	})
	if ctx.Err() != nil {
		err = nil // what was seen so far is true
	}
	return n, example, all, err
}
