// Package virttemplate has a client that KubeVirt's informers name and the converter never uses.
package virttemplate

import "k8s.io/client-go/rest"

// Client is a client without a server.
type Client struct{}

// NewForConfig returns no client.
func NewForConfig(*rest.Config) (*Client, error) { return nil, nil }

// TemplateV1beta1 returns the client itself.
func (c *Client) TemplateV1beta1() *Client { return c }

// RESTClient returns no client.
func (c *Client) RESTClient() rest.Interface { return nil }
