// Package webhooks adapts admission to the pure packages: it turns an
// AdmissionReview into a value, lets a pure package decide, and turns what it
// decided into the answer. It decides nothing itself.
//
// A [Server] has every handler under its path. A [Registration] describes the
// same webhooks to API servers, with conditions that keep away the requests
// that nothing here would act on.
package webhooks
