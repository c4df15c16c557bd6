package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Kubernetes' types encode themselves as Protocol Buffers. The page only uses JSON, but the linker
// cannot remove that code, which is a tenth of the engine.
const (
	protobuf = "generated.pb.go"
	// replacement is a folder that exists only in the overlay. Its name becomes part of the engine,
	// so that it must not be a temporary one.
	replacement = "./bin/"
)

var modules = []string{"k8s.io/api", "k8s.io/apiextensions-apiserver"}

// slim returns flags of go build that leave out the encoders of Kubernetes' types. If the engine
// used one, it would not compile.
func slim(ctx context.Context, env []string, temporary string) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps",
		"-f", `{{with $m := .Module}}{{range $.GoFiles}}{{$m.Path}}{{"\t"}}{{$m.Dir}}{{"\t"}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, playground+"/wasm")
	list.Env = env
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages of the engine: %w", err)
	}
	root, err := filepath.Abs(filepath.FromSlash(replacement))
	if err != nil {
		return nil, err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 3 && slices.Contains(modules, fields[0]) {
			module, dir, file := filepath.Join(root, fields[0]), fields[1], fields[2]
			overlay.Replace[filepath.Join(module, "go.mod")] = filepath.Join(dir, "go.mod")
			if filepath.Base(file) != protobuf {
				overlay.Replace[filepath.Join(module, strings.TrimPrefix(file, dir))] = file
			}
		}
	}
	encoded, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		mod = append(mod, "\nreplace "+module+" => "+replacement+module+"\n"...)
	}
	for name, content := range map[string][]byte{"go.mod": mod, "go.sum": sum, "overlay.json": encoded} {
		if err := write(filepath.Join(temporary, name), content); err != nil {
			return nil, err
		}
	}
	return []string{"-modfile", filepath.Join(temporary, "go.mod"), "-overlay", filepath.Join(temporary, "overlay.json")}, nil
}
