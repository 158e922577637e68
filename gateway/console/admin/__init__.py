"""The operator interface `/admin`: protected by `auth.admin_key`, and disabled without one."""
