package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licensesFile has the licenses of the modules.
const licensesFile = "THIRD-PARTY.txt"

// licenseName matches files with the terms of a license, or with notices that it demands.
var licenseName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|copyright)([._-].*)?$`)

// texts are licenses by their text. Each lists the files that have it, as "module version: file".
type texts map[string][]string

// writeLicenses writes the licenses of the modules in all programs, on all platforms.
func (r *release) writeLicenses(ctx context.Context) error {
	goroot, err := r.output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	version, err := r.output(ctx, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	found := texts{}
	if err := found.add(goModule{Path: "Go", Version: version, Dir: goroot}, goroot); err != nil {
		return err
	}
	for _, p := range r.platforms {
		if err := r.addModules(ctx, found, p, "./cmd/"+program); err != nil {
			return err
		}
	}
	if err := r.addModules(ctx, found, imagePlatform, "./cmd/virtwright-manager", "./cmd/virtwright-launcher"); err != nil {
		return err
	}
	if err := r.addModules(ctx, found, platform{"js", "wasm"}, playground+"/wasm"); err != nil {
		return err
	}
	r.licenses = found.page()
	return r.write(licensesFile, r.licenses)
}

// goModule is a module as go list prints it.
type goModule struct {
	Path, Version, Dir string
	Main               bool
}

// addModules adds the licenses of the packages in programs for a platform.
func (r *release) addModules(ctx context.Context, found texts, p platform, programs ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-tags=playground", "-json=Dir,Module"}, programs...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = r.source, p.environment(), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot list the packages in %s: %w", strings.Join(programs, " and "), err)
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var each struct {
			Dir    string
			Module *goModule
		}
		if err := packages.Decode(&each); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read the packages in %s: %w", strings.Join(programs, " and "), err)
		}
		if each.Module == nil || each.Module.Main {
			continue // a package of Go, or of virtwright
		}
		if err := found.add(*each.Module, each.Dir); err != nil {
			return err
		}
	}
}

// add adds the licenses that apply to a folder of a module: those of the folder and of all above.
func (t texts) add(module goModule, folder string) error {
	count := 0
	for ; strings.HasPrefix(folder, module.Dir); folder = filepath.Dir(folder) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return fmt.Errorf("cannot look for the license of %s: %w", module.Path, err)
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licenseName.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
				continue
			}
			path := filepath.Join(folder, entry.Name())
			content, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("cannot read the license of %s: %w", module.Path, err)
			}
			t.addText(string(content), module.Path+" "+module.Version+":"+strings.TrimPrefix(path, module.Dir))
			count++
		}
	}
	if count == 0 {
		return fmt.Errorf("cannot find the license of %s in %s", module.Path, module.Dir)
	}
	return nil
}

func (t texts) addText(text, file string) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if !slices.Contains(t[text], file) {
		t[text] = append(t[text], file)
	}
}

// page has each text once, below the files that have it.
func (t texts) page() []byte {
	for _, files := range t {
		slices.Sort(files)
	}
	sorted := slices.SortedFunc(maps.Keys(t), func(a, b string) int { return cmp.Compare(t[a][0], t[b][0]) })
	var page bytes.Buffer
	page.WriteString("Licenses of Go and of the modules in virtwright's programs, and notices that these demand\n")
	for _, text := range sorted {
		fmt.Fprintf(&page, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), strings.Join(t[text], "\n"), text)
	}
	return page.Bytes()
}
