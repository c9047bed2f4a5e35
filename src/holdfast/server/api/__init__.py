"""The native API under `/api/v1`: JSON, and streams as server-sent events.

A route reads a request, calls `TenantService` and words the answer. It must never hold state.
"""
