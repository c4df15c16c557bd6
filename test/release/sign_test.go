package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const commit = "0123456789012345678901234567890123456789"

// TestVerify checks that verify.sh accepts a release, and names the problem of a changed one.
func TestVerify(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	key := newKey(t)
	for name, test := range map[string]struct {
		tamper func(t *testing.T, dist string) error
		want   string // the start of what verify.sh prints
	}{
		"changed file":       {edit("LICENSE", "Apache", "apache"), "LICENSE: changed"},
		"missing file":       {remove("LICENSE"), "LICENSE: missing"},
		"added file":         {add("more"), "more: not part of the release"},
		"added hidden file":  {add(".more"), ".more: not part of the release"},
		"changed checksums":  {edit(checksumsFile, "  LICENSE", "  LICENCE"), "checksums.txt: changed"},
		"no signature":       {remove(signatureFile), "checksums.txt.sig: missing"},
		"no provenance":      {remove(provenanceFile), "provenance.intoto.jsonl: missing"},
		"changed provenance": {edit(provenanceFile, `"payload":"ewog`, `"payload":"ewoJ`), "provenance.intoto.jsonl: changed"},
		"provenance of another release": {func(t *testing.T, dist string) error {
			t.Helper()
			return os.Rename(filepath.Join(signed(t, key, "1.0.0"), provenanceFile), filepath.Join(dist, provenanceFile))
		}, "provenance.intoto.jsonl: not the provenance of this CHANGELOG.md\n"},
		"another key": {func(t *testing.T, dist string) error {
			t.Helper()
			return (&release{dist: dist, key: newKey(t)}).sign()
		}, "checksums.txt: changed, or signed with another key"},
		"another key of the provenance": {func(t *testing.T, dist string) error {
			t.Helper()
			return os.Rename(filepath.Join(signed(t, newKey(t), version), provenanceFile), filepath.Join(dist, provenanceFile))
		}, "provenance.intoto.jsonl: changed, or signed with another key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dist := signed(t, key, version)
			if out, err := verify(t, key, dist); err != nil || !strings.HasSuffix(out, "built from commit "+commit+"\n") {
				t.Fatalf("a correct release: %v\n%s", err, out)
			}
			if err := test.tamper(t, dist); err != nil {
				t.Fatal(err)
			}
			if out, err := verify(t, key, dist); err == nil || !strings.HasPrefix(out, test.want) {
				t.Errorf("want %q, got %q (%v)", test.want, out, err)
			}
		})
	}
}

// signed is the folder of a signed release without images and CLI.
func signed(t *testing.T, key *ecdsa.PrivateKey, version string) string {
	t.Helper()
	r := &release{
		source: root, dist: t.TempDir(), version: version, revision: commit, time: changed, key: key,
		digests: map[string]string{"manager": digest, "launcher": digest},
	}
	for _, step := range steps {
		if step.name == "images" || step.name == "licenses" || step.name == "CLI" {
			continue
		}
		if err := step.do(r, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sign(); err != nil {
		t.Fatal(err)
	}
	return r.dist
}

func edit(name, old, text string) func(*testing.T, string) error {
	return func(t *testing.T, dist string) error {
		t.Helper()
		before := string(read(t, filepath.Join(dist, name)))
		after := strings.Replace(before, old, text, 1)
		if before == after {
			t.Fatalf("%s has no %q", name, old)
		}
		return os.WriteFile(filepath.Join(dist, name), []byte(after), 0o600)
	}
}

func remove(name string) func(*testing.T, string) error {
	return func(_ *testing.T, dist string) error { return os.Remove(filepath.Join(dist, name)) }
}

func add(name string) func(*testing.T, string) error {
	return func(_ *testing.T, dist string) error { return os.WriteFile(filepath.Join(dist, name), nil, 0o600) }
}

// verify runs the script of the release.
func verify(t *testing.T, key *ecdsa.PrivateKey, dist string) (string, error) {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dist, "verify.sh"), writePEM(t, "PUBLIC KEY", public), dist).CombinedOutput()
	return string(out), err
}

func TestKey(t *testing.T) {
	pkcs8 := func(key any, err error) []byte {
		t.Helper()
		content, marshal := x509.MarshalPKCS8PrivateKey(key)
		if err := errors.Join(err, marshal); err != nil {
			t.Fatal(err)
		}
		return content
	}
	for name, test := range map[string]struct{ kind, content, want string }{
		"good":             {"PRIVATE KEY", string(pkcs8(newKey(t), nil)), ""},
		"of cosign":        {"ENCRYPTED SIGSTORE PRIVATE KEY", "{}", "must be a PEM file with a PRIVATE KEY (PKCS#8) that is not encrypted"},
		"of another kind":  {"PRIVATE KEY", string(pkcs8(rsa.GenerateKey(rand.Reader, 2048))), "must be an ECDSA key of the curve P-256"},
		"of another curve": {"PRIVATE KEY", string(pkcs8(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))), "must be an ECDSA key of the curve P-256"},
		"broken":           {"PRIVATE KEY", "x", "asn1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readKey(writePEM(t, test.kind, []byte(test.content)))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestSource: provenance names the commit, so the release must come from its files.
func TestSource(t *testing.T) {
	for revision, good := range map[string]bool{"abc": true, "abc-modified": false, "": false} {
		if err := (&release{revision: revision}).checkSource(); (err == nil) != good {
			t.Errorf("revision %q: %v", revision, err)
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, kind string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
