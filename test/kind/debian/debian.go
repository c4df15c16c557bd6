// Package debian makes a layer of a container image from Debian packages.
//
// mmdebstrap resolves, downloads and unpacks the packages. No script of a package runs, so the
// layer depends on the packages alone: the same packages give the same bytes. It has no package
// manager, and no shell unless a package brings one.
package debian

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The files that Unpack writes.
const (
	// LayerFile is the layer, a tar archive.
	LayerFile = "layer.tar"
	// packagesFile is a JSON list of Package.
	packagesFile = "packages.json"
)

// A Selection is what a layer is made of.
type Selection struct {
	// Release is Debian's code name.
	Release string
	// Packages are unpacked with everything that they depend on.
	Packages []string
	// Without are paths that the layer leaves out, with everything below them.
	Without []string
}

// A Package is a Debian package that was unpacked.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture"`
	// Source is the name of the source package.
	Source string `json:"source"`
	// License is Debian's short name of the license of most files, empty where it is unknown.
	License string `json:"license,omitempty"`
}

// format makes dpkg-deb print a line for Package.
const format = `${Package} ${Version} ${Architecture} ${source:Package}\n`

// Unpack writes LayerFile and packagesFile into dir.
func Unpack(ctx context.Context, dir string, from Selection) error {
	list := filepath.Join(dir, "packages.txt")
	hook := `for package in "$1"/var/cache/apt/archives/*.deb; do dpkg-deb --show --showformat='` + format + `' "$package"; done >'` + list + `'`
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=extract", "--format=tar", "--skip=download/empty",
		"--include="+strings.Join(from.Packages, ","), "--extract-hook="+hook, from.Release, "-")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	unpacked, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot run mmdebstrap: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run mmdebstrap: %w", err)
	}
	licenses, copyErr := copyLayer(bufio.NewReader(unpacked), filepath.Join(dir, LayerFile), from.Without)
	_ = unpacked.Close() // ends mmdebstrap where copyLayer stopped early
	if err := cmd.Wait(); err != nil && copyErr == nil {
		return fmt.Errorf("cannot unpack packages of %s: %w\n%s", from.Release, err, strings.TrimSpace(complaints.String()))
	}
	if copyErr != nil {
		return fmt.Errorf("cannot write the layer of packages: %w", copyErr)
	}
	return describe(list, filepath.Join(dir, packagesFile), licenses)
}

// describe turns the lines of a list into packagesFile, and removes the list.
func describe(list, path string, licenses map[string]string) error {
	content, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("cannot read the list of packages: %w", err)
	}
	packages, err := parseList(string(content), licenses)
	if err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(packages, "", " ")
	if err != nil {
		return fmt.Errorf("cannot encode the list of packages: %w", err)
	}
	if err := os.WriteFile(path, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the list of packages: %w", err)
	}
	return os.Remove(list)
}

func parseList(content string, licenses map[string]string) ([]Package, error) {
	var packages []Package
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			return nil, fmt.Errorf("cannot read the line %q of dpkg-deb", line)
		}
		packages = append(packages, Package{
			Name: fields[0], Version: fields[1], Architecture: fields[2], Source: fields[3], License: licenses[fields[0]],
		})
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages, nil
}

// ReadPackages reads packagesFile in dir.
func ReadPackages(dir string) ([]Package, error) {
	content, err := os.ReadFile(filepath.Join(dir, packagesFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of packages: %w", err)
	}
	var packages []Package
	if err := json.Unmarshal(content, &packages); err != nil {
		return nil, fmt.Errorf("cannot read the list of packages: %w", err)
	}
	return packages, nil
}
