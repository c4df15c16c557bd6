package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground/site"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/templates/portable"
)

const playgroundHelp = `Serve a web page that expands and explains virtual machines while you edit them and their presets.

The page runs the engine of this program in the browser: it sends nothing to any server. The command
prints the page's address, which only this computer can open, and serves it until interrupted.

With names, -f or flags that select a cluster, the page starts with copies of these VMs, and of the
presets and other objects that expand would read. Without names or -l, no VM of a cluster is read.
The address then has a random token, which protects the copies from other users of this computer.
Nothing is written, neither to files nor to the cluster.`

const playgroundExamples = `  # The page with its own examples
  {{program}} playground

  # A VM of the cluster with the presets of the cluster
  {{program}} playground vm/web -n shop

  # Files
  {{program}} playground -f examples/vms/web.yaml -f examples/presets -f examples/namespaces.yaml`

type playgroundCommand struct {
	settings
	port uint16
}

// newPlayground returns the command for the files of the page; nil for none.
func newPlayground(shown string, s streams, files fs.FS) *cobra.Command {
	o := &playgroundCommand{settings: settings{source: source{needs: needs{filesOnly: true, keepText: true}}}}
	c := &cobra.Command{
		Use: "playground [-f FILE...] [TYPE/NAME...]", Short: "Serve a web page to edit virtual machines and presets", Long: playgroundHelp,
		Example: strings.ReplaceAll(playgroundExamples, "{{program}}", shown), Args: named,
		RunE: func(c *cobra.Command, args []string) error {
			o.modeGiven = c.Flags().Changed("mode")
			o.namespace = cmp.Or(*o.connection.flags.Namespace, metav1.NamespaceDefault)
			if err := errors.Join(o.source.check(args), oneOf("--mode", o.mode, modeStandalone, modeAddon)); err != nil {
				return err
			}
			if files == nil {
				return errors.New("this program was built without the playground: build it with make build")
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.serve(ctx, s, args, files)
		},
	}
	o.source.declare(c)
	c.ValidArgsFunction = o.connection.complete(0)
	f := c.Flags()
	f.StringVar(&o.mode, "mode", modeStandalone, "standalone or addon, as for expand; the default is addon if the cluster has KubeVirt")
	f.Uint16Var(&o.port, "port", 0, "port of the page; 0 selects a free port")
	offer(c, "mode", []string{modeStandalone, modeAddon})
	return c
}

func (o *playgroundCommand) serve(ctx context.Context, s streams, args []string, files fs.FS) error {
	var state []byte
	token, query := "", ""
	if o.reads(args) {
		input, err := o.inputOf(ctx, s, args)
		if err != nil {
			return err
		}
		if state, err = json.Marshal(input); err != nil {
			return err
		}
		token = rand.Text() + rand.Text() // 256 bits
		query = "?token=" + token
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(o.port))))
	if err != nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	server := &http.Server{Handler: site.Handler(files, state, token), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // downloads of the page need not be completed
	}()
	fmt.Fprintf(s.out, "http://%s/%s\n", listener.Addr(), query)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	return nil
}

// reads reports whether files or a cluster are read.
func (o *playgroundCommand) reads(args []string) bool {
	return len(o.files) > 0 || o.kustomize != "" || len(args) > 0 || o.all || o.selector != "" || o.forceLive || o.connection.chosen()
}

func (o *playgroundCommand) inputOf(ctx context.Context, s streams, args []string) (playground.Input, error) {
	o.withoutVMs = len(args) == 0 && o.selector == ""
	objects, err := o.objects(ctx, s, args)
	if err != nil {
		return playground.Input{}, err
	}
	return newInput(objects, o.namespace, o.mode)
}

// newInput returns the state of the page for copies of objects. Those that need a namespace and
// have none are in the given one.
func newInput(objects []manifest.Object, namespace, mode string) (playground.Input, error) {
	var vms, others []string
	for _, object := range objects {
		text, err := sourceText(object, namespace)
		if err != nil {
			return playground.Input{}, err
		}
		if simulate.IsVM(object) {
			vms = append(vms, text)
		} else {
			others = append(others, text)
		}
	}
	const separator = "---\n"
	return playground.Input{VM: strings.Join(vms, separator), Presets: strings.Join(others, separator), Mode: mode}, nil
}

// sourceText returns an object as YAML: as its file has it, unless that text lacks the namespace or
// has fields of a stored object. A text in braces could be read as JSON, with those behind it.
func sourceText(object manifest.Object, namespace string) (string, error) {
	copied, err := simulate.AsNew(object, namespace)
	if err != nil {
		return "", err
	}
	var written map[string]any
	text := bytes.Trim(object.Text, "\r\n")
	if len(text) > 0 && text[0] != '{' && kjson.UnmarshalCaseSensitivePreserveInts(object.JSON, &written) == nil && reflect.DeepEqual(copied, written) {
		return string(text) + "\n", nil
	}
	formatted, err := portable.YAML(copied)
	if err != nil {
		return "", fmt.Errorf("%s: %w", object.Where, err)
	}
	return string(formatted), nil
}
