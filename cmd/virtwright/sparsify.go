package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const sparsifyHelp = `Print virtual machines without the fields that presets and platform defaults give them anyway. It is
the inverse of expand: a cluster with the same presets stores the same object for the sparse
manifest as for the full one. That is checked with the webhooks before anything is printed. No
further field can be left out.

` + liveHelp + `

A VM that is stored in a cluster is treated as a new one with its desired state, without its status
and what API servers and controllers write. A preset that would change the full VM changes the
sparse one too; virtwright drift lists such VMs.

-o table shows how much is saved, where the fields come from, and which fields stay and why. --write
changes the files of -f instead. Comments, order and quotes of what stays are kept.`

const sparsifyExamples = `  # A VM without the fields that presets give it
  {{program}} sparsify -f full.yaml -f examples/presets

  # Savings by the presets of the cluster in a folder, and why fields stay
  {{program}} sparsify -f vms --live -o table

  # Change the files
  {{program}} sparsify -f vms -f examples/presets --write`

// mostKept is the number of rows of fields that stay.
const mostKept = 20

type sparsifyCommand struct {
	settings
	write bool
}

// A sparseVM is a VM in the report of sparsify.
type sparseVM struct {
	simulate.VM
	*presets.Sparse
	text       string
	row, stays []string
	err        error
}

func newSparsify(shown string, s streams) *cobra.Command {
	o := &sparsifyCommand{settings: settings{without: []string{"reapply", "warnings"}}}
	c := &cobra.Command{
		Use: "sparsify [-f FILE...] [TYPE/NAME...] [--write]", Short: "Print virtual machines without the fields that presets give",
		Long: sparsifyHelp, Example: sparsifyExamples, Args: named,
	}
	o.setUp(c, shown, []string{"yaml", "json", "diff", "table"}, func(ctx context.Context, args []string) error { return o.run(ctx, s, args) }, func(c *cobra.Command) error {
		if o.write && c.Flags().Changed("output") {
			return errors.New("--write and -o are mutually exclusive")
		}
		return nil
	})
	o.declareValidation(c)
	c.Flags().BoolVar(&o.write, "write", false, "change the files of -f, and print a table")
	c.ValidArgsFunction = o.connection.complete(0)
	return c
}

func (o *sparsifyCommand) run(ctx context.Context, s streams, args []string) error {
	c, err := o.cluster(ctx, s, args)
	if err != nil {
		return err
	}
	if o.write {
		o.output = "table"
		if err := errors.Join(inFiles(c.VMs, "kustomization "+o.kustomize), isKnown(c)); err != nil {
			return err
		}
	}
	list := &listWriter{out: s.out, output: o.output}
	var done []sparseVM
	var problems []error
	shown, n := newProgress(s, "sparsified", len(c.VMs)), 0
	for x := range simulate.InOrder(ctx, slices.Values(c.VMs), func(ctx context.Context, m simulate.VM) sparseVM { return o.one(ctx, c, m) }) {
		switch {
		case x.err != nil:
		case o.output == "table":
			done = append(done, x)
		default:
			x.err = list.add(x.text)
		}
		if problems = append(problems, x.err); x.err == nil {
			n++
		}
		shown.at(n)
	}
	shown.clear()
	note(s, c.Missing())
	switch {
	case o.write:
		written, err := rewrite(done)
		problems = append(problems, err, printSparse(s, written))
	case o.output == "table":
		problems = append(problems, printSparse(s, done))
	default:
		problems = append(problems, list.end())
	}
	return errors.Join(problems...)
}

func (o *sparsifyCommand) one(ctx context.Context, c *simulate.Cluster, m simulate.VM) (x sparseVM) {
	x.VM = m
	if x.Sparse, x.err = c.Sparsify(ctx, m); x.err != nil {
		return x
	}
	switch o.output {
	case "table":
		x.summarize()
	case "diff":
		x.text, x.err = diff(m, x.Object, "sparse")
	default:
		x.text, x.err = rendered(o.output, x.Object)
	}
	if x.err != nil {
		x.err = fmt.Errorf("cannot print %s: %w", m, x.err)
	}
	return x
}

// inFiles rejects VMs that cannot be changed in place.
func inFiles(vms []simulate.VM, kustomization string) error {
	var problems []error
	for _, m := range vms {
		switch {
		case m.Where.Document == 0 || m.Where.File == "standard input", m.Where.File == kustomization:
			problems = append(problems, fmt.Errorf("--write changes files: %s is of %s: name files with VMs in -f", m, m.Where.File))
		case m.Where.Item > 0:
			problems = append(problems, fmt.Errorf("--write changes documents: %s is an item of a list (%s): print it with -o yaml", m, m.Where))
		}
	}
	return errors.Join(problems...)
}

// isKnown rejects to write while objects are missing that decide what presets give.
func isKnown(c *simulate.Cluster) error {
	var problems []error
	for _, text := range slices.Concat(c.Unlabelled(nil), c.Missing()) {
		problems = append(problems, errors.New("--write needs all that presets read: "+text))
	}
	return errors.Join(problems...)
}

// rewrite writes sparse VMs into their files, and returns those that were written.
func rewrite(vms []sparseVM) ([]sparseVM, error) {
	parts := map[string]map[int]map[string]any{}
	for _, x := range vms {
		if parts[x.Where.File] == nil {
			parts[x.Where.File] = map[int]map[string]any{}
		}
		parts[x.Where.File][x.Where.Document] = x.Object
	}
	var problems []error
	for _, file := range slices.Sorted(maps.Keys(parts)) {
		prune := func(content []byte) ([]byte, error) { return manifest.Prune(file, content, parts[file]) }
		if err := replaceFile(file, prune); err != nil {
			problems = append(problems, err)
			vms = slices.DeleteFunc(vms, func(x sparseVM) bool { return x.Where.File == file })
		}
	}
	return vms, errors.Join(problems...)
}

// replaceFile edits a file at once, so that an interrupt leaves the old or the new one.
func replaceFile(file string, edit func([]byte) ([]byte, error)) error {
	at, err := filepath.EvalSymlinks(file)
	if err != nil {
		return cannotWrite(file, err)
	}
	old, err := os.OpenFile(at, os.O_RDWR, 0) // a file that may not be written is not replaced
	if err != nil {
		return cannotWrite(file, err)
	}
	defer old.Close()
	content, err := io.ReadAll(old)
	if err != nil {
		return cannotWrite(file, err)
	}
	if content, err = edit(content); err != nil {
		return err
	}
	info, err := old.Stat()
	if err != nil {
		return cannotWrite(file, err)
	}
	next, err := os.CreateTemp(filepath.Dir(at), "."+filepath.Base(at)+".*")
	if err != nil {
		return cannotWrite(file, err)
	}
	_, err = next.Write(content)
	if err = errors.Join(err, next.Chmod(info.Mode().Perm()), next.Close()); err == nil {
		err = os.Rename(next.Name(), at)
	}
	if err != nil {
		return cannotWrite(file, errors.Join(err, os.Remove(next.Name())))
	}
	return nil
}

func cannotWrite(file string, err error) error {
	return fmt.Errorf("cannot write %s: %w", file, manifest.Reason(err))
}

// summarize replaces the leaves of a VM, which take much memory, by its row in the table and by
// those that stay, each with its reason.
func (x *sparseVM) summarize() {
	all := len(x.Kept) + len(x.Given)
	x.row = []string{x.Namespace, x.Name, strconv.Itoa(all), strconv.Itoa(len(x.Kept)), givers(x.Given)}
	for _, k := range x.Kept {
		x.stays = append(x.stays, k.Path.String()+"\n"+k.Reason())
	}
	x.Kept, x.Given = nil, nil
}

// printSparse prints the savings of each VM, then the fields that stay most often.
func printSparse(s streams, vms []sparseVM) error {
	var rows [][]string
	stays := map[string]int{}
	for _, x := range vms {
		rows = append(rows, x.row)
		for _, leaf := range x.stays {
			stays[leaf]++
		}
	}
	if err := printTable(s.out, []string{"NAMESPACE", "NAME", "FIELDS", "STAY", "GIVEN-BY"}, rows); err != nil || len(stays) == 0 {
		return err
	}
	most := byCount(stays)
	rows = nil
	for _, key := range most[:min(len(most), mostKept)] {
		path, reason, _ := strings.Cut(key, "\n")
		rows = append(rows, []string{path, strconv.Itoa(stays[key]), reason})
	}
	fmt.Fprintln(s.out)
	if err := printTable(s.out, []string{"FIELD-THAT-STAYS", "VMS", "REASON"}, rows); err != nil {
		return err
	}
	if more := len(most) - len(rows); more > 0 {
		note(s, []string{fmt.Sprintf("%d more fields stay", more)})
	}
	return nil
}

// byCount returns the keys with the largest numbers first.
func byCount(count map[string]int) []string {
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
}

// givers returns the sources of fields with their numbers, the most important first.
func givers(given []presets.Origin) string {
	count := map[string]int{}
	for _, o := range given {
		name := o.By.Preset
		if o.By.Role == provenance.Platform {
			name = "platform"
		}
		count[cmp.Or(name, "others")]++
	}
	var out []string
	for _, name := range byCount(count) {
		out = append(out, name+" "+strconv.Itoa(count[name]))
	}
	return cmp.Or(strings.Join(out, ", "), "<none>")
}
