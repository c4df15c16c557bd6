// Package disclosure compares the answers of the webhooks to forged reviews in two clusters that
// differ only in their VMs.
package disclosure
