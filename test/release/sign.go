package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Files of a signed release that checksumsFile does not list.
const (
	signatureFile  = checksumsFile + ".sig"
	provenanceFile = "provenance.intoto.jsonl"
)

const (
	repository = "https://github.com/virtwright/virtwright"
	// releasing describes how a release is made.
	releasing   = repository + "/blob/main/docs/releasing.md"
	payloadType = "application/vnd.in-toto+json"
)

// readKey reads a private key of the curve P-256, in PKCS#8 and not encrypted.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("-key %s: must be a PEM file with a PRIVATE KEY (PKCS#8) that is not encrypted: docs/releasing.md shows how to make one", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("-key %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("-key %s: must be an ECDSA key of the curve P-256", path)
	}
	return key, nil
}

// checkSource rejects sources that provenance cannot name.
func (r *release) checkSource() error {
	if r.revision == "" || strings.HasSuffix(r.revision, modified) {
		return errors.New("cannot sign the release: files differ from the commit, or there is none: commit them, or omit the key")
	}
	return nil
}

// sign writes the signature of the checksums, and the signed provenance of the files that they
// list. It needs the checksums.
func (r *release) sign() error {
	sums, err := os.ReadFile(filepath.Join(r.dist, checksumsFile))
	if err != nil {
		return fmt.Errorf("cannot read the checksums: %w", err)
	}
	signature, err := r.signature(sums)
	if err != nil {
		return err
	}
	if err := r.write(signatureFile, []byte(signature+"\n")); err != nil {
		return err
	}
	statement, err := r.provenance(string(sums))
	if err != nil {
		return err
	}
	// DSSE signs the type and the payload, each with its length.
	signature, err = r.signature(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))
	if err != nil {
		return err
	}
	envelope, err := json.Marshal(map[string]any{
		"payloadType": payloadType, "payload": statement, "signatures": []any{map[string]any{"sig": signature}},
	})
	if err != nil {
		return fmt.Errorf("cannot encode the provenance: %w", err)
	}
	return r.write(provenanceFile, append(envelope, '\n'))
}

// signature is that of cosign sign-blob: ECDSA in ASN.1, over SHA-256, in base64. Without a source
// of randomness it is deterministic (RFC 6979).
func (r *release) signature(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	signature, err := r.key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("cannot sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

// provenance is a statement of SLSA about the files of checksums. verify.sh expects one field per
// line.
func (r *release) provenance(checksums string) ([]byte, error) {
	var subjects []any
	for line := range strings.Lines(checksums) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		subjects = append(subjects, map[string]any{"name": name, "digest": map[string]any{"sha256": sum}})
	}
	statement, err := json.MarshalIndent(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            releasing,
				"externalParameters":   map[string]any{"version": r.version},
				"internalParameters":   map[string]any{"go": runtime.Version(), "host": runtime.GOOS + "/" + runtime.GOARCH},
				"resolvedDependencies": []any{map[string]any{"uri": "git+" + repository, "digest": map[string]any{"gitCommit": r.revision}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": releasing + "#sign-with-a-key"}},
		},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("cannot encode the provenance: %w", err)
	}
	return statement, nil
}
