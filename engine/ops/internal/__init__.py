"""Operations that passes and sessions make."""
