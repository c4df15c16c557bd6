package playground

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
)

// Link returns the address of a page with a state, for the page at base. The state is in the
// fragment, which browsers do not send: #s= and the JSON, compressed by DEFLATE, in URL-safe
// base64. The page decodes it in link.js.
func Link(base string, in Input) (string, error) {
	address, err := url.Parse(base)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return "", fmt.Errorf("%q is not the address of a page: use for example http://127.0.0.1:8080/", base)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	if len(text) > maxText {
		return "", fmt.Errorf("the VMs and presets are larger than %d bytes: select fewer", maxText)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return "", err
	}
	_, _ = w.Write(text) // a buffer accepts everything
	if err := w.Close(); err != nil {
		return "", err
	}
	address.Fragment = "s=" + base64.RawURLEncoding.EncodeToString(packed.Bytes())
	return address.String(), nil
}
