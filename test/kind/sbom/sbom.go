// Package sbom writes bills of materials in SPDX 2.3: the Go modules of a program, and the Debian
// packages of the image that has it.
package sbom

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtwright/virtwright/test/kind/debian"
)

// A Document is a software bill of materials in SPDX 2.3. It has no time of its own: the same
// content has the same document.
type Document struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []billPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type billPackage struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo,omitempty"`
	Download  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Concluded string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Comment   string      `json:"licenseComments,omitempty"`
	Copyright string      `json:"copyrightText"`
	Refs      []reference `json:"externalRefs,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	unknown    = "NOASSERTION"
	documentID = "SPDXRef-DOCUMENT"
	subjectID  = "SPDXRef-Subject"
)

// spdxNames are SPDX's names of licenses by Debian's. Packages under another license have Debian's
// name in licenseComments.
var spdxNames = map[string]string{
	"Apache-2.0": "Apache-2.0", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "BSD-3-Clause": "BSD-3-Clause",
	"Expat": "MIT", "MIT": "MIT", "ISC": "ISC", "Zlib": "Zlib",
	"GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later", "GPL-3": "GPL-3.0-only", "GPL-3+": "GPL-3.0-or-later",
	"LGPL-2": "LGPL-2.0-only", "LGPL-2+": "LGPL-2.0-or-later", "LGPL-2.1": "LGPL-2.1-only", "LGPL-2.1+": "LGPL-2.1-or-later",
	"LGPL-3": "LGPL-3.0-only", "LGPL-3+": "LGPL-3.0-or-later",
}

// Of lists the packages of Debian's release, the modules of a program, and its Go release.
func Of(program, release string, packages []debian.Package) (*Document, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the modules of %s: %w", filepath.Base(program), err)
	}
	d := &Document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", ID: documentID,
		Creation: creation{Created: "1970-01-01T00:00:00Z", Creators: []string{"Tool: virtwright-sbom"}},
	}
	for _, p := range packages {
		query := url.Values{"arch": {p.Architecture}, "distro": {release}, "upstream": {p.Source}}
		d.add(p.Name, p.Version, "pkg:deb/debian/"+url.PathEscape(p.Name)+"@"+url.PathEscape(p.Version)+"?"+query.Encode(), p.License)
	}
	d.add("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-clause")
	for _, module := range info.Deps {
		for module.Replace != nil {
			module = module.Replace
		}
		d.add(module.Path, module.Version, "pkg:golang/"+module.Path+"@"+url.PathEscape(module.Version), "")
	}
	return d, nil
}

// add adds a package that the subject contains. The license is Debian's name of it.
func (d *Document) add(name, version, purl, license string) {
	entry := billPackage{
		ID: fmt.Sprintf("SPDXRef-Package-%d", len(d.Packages)+1), Name: name, Version: version,
		Download: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown,
		Refs: []reference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: purl}},
	}
	if known := spdxNames[license]; known != "" {
		entry.Declared = known
	} else if license != "" {
		entry.Comment = "Debian: " + license
	}
	d.Packages = append(d.Packages, entry)
	d.Relationships = append(d.Relationships, relationship{subjectID, "CONTAINS", entry.ID})
}

// Write writes the document into a file. Its subject, an image or an archive, has a name, a version
// and a digest, such as sha256:0123.
func (d Document) Write(path, name, version, digest string) error {
	d.Name, d.Namespace = name, "https://virtwright.dev/spdx/"+strings.ReplaceAll(digest, ":", "-")
	d.Packages = append([]billPackage{{
		ID: subjectID, Name: name, Version: version, Download: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown,
	}}, d.Packages...)
	d.Relationships = append([]relationship{{documentID, "DESCRIBES", subjectID}}, d.Relationships...)
	encoded, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return fmt.Errorf("cannot encode the bill of materials: %w", err)
	}
	if err := os.WriteFile(path, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	return nil
}
