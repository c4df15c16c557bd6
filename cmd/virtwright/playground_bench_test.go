package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
)

// empty is a program like the engine that does nothing.
const empty = `package main

import "syscall/js"

func main() {
	answer := js.FuncOf(func(js.Value, []js.Value) any { return "{}" })
	js.Global().Set("virtwright", map[string]any{"evaluate": answer})
	select {}
}
`

// BenchmarkPlayground measures the engine and an empty program in Chromium: the time from a new
// page to the first result, and the time of a result after a keystroke, with 50 presets. Use
// -benchtime 20x; the medians are reported.
func BenchmarkPlayground(b *testing.B) {
	folder := buildEngine(b)
	addEmpty(b, folder)
	in := fiftyPresets(b)
	for _, file := range []string{"empty.wasm.gz", "engine.wasm.gz"} {
		name, _, _ := strings.Cut(file, ".")
		c := openHarness(b, folder)
		b.Run("first result/"+name, func(b *testing.B) {
			report(b, func(int) float64 { return c.start(file, in) })
		})
		b.Run("keystroke/"+name, func(b *testing.B) {
			report(b, func(i int) float64 {
				in := in
				in.VM = strings.Replace(in.VM, "name: web", fmt.Sprintf("name: web-%d", i), 1)
				out, ms := c.evaluate(in)
				if file == "engine.wasm.gz" && (len(out.VMs) != 1 || out.VMs[0].Domain == "") {
					b.Fatalf("no result: %+v", out.Problems)
				}
				return ms
			})
		})
	}
}

// report reports the median of b.N measurements.
func report(b *testing.B, measure func(i int) (ms float64)) {
	var all []float64
	for i := range b.N {
		all = append(all, measure(i))
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "ms-median")
	b.ReportMetric(0, "ns/op") // includes the test itself
}

func addEmpty(b *testing.B, folder string) {
	b.Helper()
	source := filepath.Join(b.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(empty), 0o600); err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(b.TempDir(), "empty.wasm")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	file, err := os.Create(filepath.Join(folder, "empty.wasm.gz"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	w := gzip.NewWriter(file)
	if _, err := w.Write([]byte(read(b, program))); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// fiftyPresets returns a realistic VM with the presets of the examples and of the catalogue, and
// copies of them.
func fiftyPresets(b *testing.B) playground.Input {
	b.Helper()
	in := playground.Input{VM: read(b, exampleVMs+"/web.yaml"), Presets: read(b, exampleNamespaces)}
	var documents []string
	for _, folder := range []string{examplePresets, "../../examples/catalogue"} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil {
			b.Fatal(err)
		}
		for _, file := range files {
			for document := range strings.SplitSeq(read(b, file), "\n---\n") {
				if strings.Contains(document, "kind: ClusterVirtualMachinePreset") || strings.Contains(document, "kind: VirtualMachinePreset") {
					documents = append(documents, document)
				}
			}
		}
	}
	for i := range 50 {
		document := documents[i%len(documents)]
		if i >= len(documents) {
			document = strings.Replace(document, "\n  name: ", "\n  name: copy-", 1)
		}
		in.Presets += "\n---\n" + document
	}
	return in
}
